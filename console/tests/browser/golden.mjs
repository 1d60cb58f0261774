// Golden pictures: what a screen looks like is compared with what somebody has looked at.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

/** Of the pixels of a picture, so many may differ. */
const SHARE = 0.002;
/** A pixel differs when one of its colours does by more than this, of 255. */
const TOLERANCE = 16;
/** A picture is kept with so many colours: with more, one takes three times the bytes. Those left out are of the edges of letters. */
const COLOURS = 256;
const [kept, differences] = [process.env.CONSOLE_GOLDEN, process.env.CONSOLE_DIFFERENCES];
const isWriting = process.env.CONSOLE_GOLDEN_WRITE === "yes";
const FONTS = ["truetype/dejavu/DejaVuSans.ttf", "truetype/dejavu/DejaVuSansMono.ttf", "opentype/noto/NotoSansCJK-Regular.ttc", "opentype/noto/NotoSansCJK-Bold.ttc", "truetype/noto/NotoColorEmoji.ttf"].map((each) => `/usr/share/fonts/${each}`);

/** Why pictures can't be compared here; empty if they can. */
export function obstacle() {
  const missing = FONTS.filter((each) => !existsSync(each));
  return missing.length === 0 ? "" : `${missing[0]} is missing: run scripts/system-packages`;
}

/** What draws the pictures. */
function drawnBy(browser) {
  const fonts = createHash("sha256");
  for (const each of FONTS) fonts.update(readFileSync(each));
  return { chromium: browser.version().split(".")[0], fonts: fonts.digest("hex").slice(0, 12) };
}

/** Pictures of one run. */
export async function openGallery(browser) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const seen = new Set();
  const wrong = [];
  if (isWriting) mkdirSync(kept, { recursive: true });
  else rmSync(differences, { recursive: true, force: true });
  return {
    async compare(name, shot) {
      seen.add(`${name}.webp`);
      const path = `${kept}/${name}.webp`;
      const old = existsSync(path) ? readFileSync(path).toString("base64") : "";
      const { share, difference, packed } = await page.evaluate(compareInPage, { shot: shot.toString("base64"), old, SHARE, TOLERANCE, COLOURS, isWriting });
      if (share <= SHARE) return;
      if (isWriting) {
        writeFileSync(path, Buffer.from(packed, "base64"));
        return;
      }
      wrong.push(`${name}: ${old === "" ? "there is no golden picture of it" : `${(share * 100).toFixed(2)} % of its pixels differ`}`);
      mkdirSync(differences, { recursive: true });
      writeFileSync(`${differences}/${name}.now.png`, shot);
      if (difference !== "") writeFileSync(`${differences}/${name}.difference.png`, Buffer.from(difference, "base64"));
    },
    close: () => context.close(),
    /** What differs, and what to do; empty if nothing does. */
    problem() {
      const other = readdirSync(kept).filter((each) => each.endsWith(".webp") && !seen.has(each));
      if (isWriting) {
        for (const each of other) rmSync(`${kept}/${each}`);
        writeFileSync(`${kept}/drawn-by.json`, `${JSON.stringify(drawnBy(browser))}\n`);
        return "";
      }
      wrong.push(...other.map((each) => `${each}: no screen has this golden picture`));
      if (wrong.length === 0) return "";
      const [then, now] = [JSON.parse(readFileSync(`${kept}/drawn-by.json`, "utf8")), drawnBy(browser)];
      const others = Object.keys(now).filter((each) => now[each] !== then[each]).map((each) => `They were drawn with ${each} ${then[each]}, and here with ${now[each]}. `);
      return `${wrong.join("\n")}\nLook at ${differences}: NAME.now.png is what the screen looks like, and in NAME.difference.png what differs is red. ${others.join("")}What is as it should be becomes golden with: scripts/console-build --golden`;
    },
  };
}

/** Runs in the browser: how much of a picture differs from the golden one, where, and the picture as it is kept. */
async function compareInPage({ shot, old, SHARE, TOLERANCE, COLOURS, isWriting }) {
  const drawn = async (base64, type) => {
    const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type }));
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d", { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    return { context, image: context.getImageData(0, 0, image.width, image.height) };
  };
  const packed = async (context, type) => {
    const bytes = new Uint8Array(await (await context.canvas.convertToBlob({ type, quality: 1 })).arrayBuffer());
    let text = "";
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    return btoa(text);
  };
  const now = await drawn(shot, "image/png");
  const then = old === "" ? null : await drawn(old, "image/webp");
  const { data, width, height } = now.image;
  /** The picture as it is kept: with its most frequent colours alone. */
  const kept = () => {
    const pixels = new Uint32Array(data.slice().buffer);
    const counts = new Map();
    for (const each of pixels) counts.set(each, (counts.get(each) ?? 0) + 1);
    const chosen = [...counts].sort(([a, many], [b, more]) => more - many || a - b).slice(0, COLOURS).map(([each]) => each);
    const apart = (a, b) => ((a & 255) - (b & 255)) ** 2 + (((a >> 8) & 255) - ((b >> 8) & 255)) ** 2 + (((a >> 16) & 255) - ((b >> 16) & 255)) ** 2;
    const nearest = new Map(chosen.map((each) => [each, each]));
    for (const each of counts.keys()) if (!nearest.has(each)) nearest.set(each, chosen.reduce((best, other) => (apart(each, other) < apart(each, best) ? other : best)));
    return new Uint8ClampedArray(pixels.map((each) => nearest.get(each)).buffer);
  };
  let share = 1;
  let difference = "";
  if (then !== null && then.image.width === width && then.image.height === height) {
    const was = then.image.data;
    const mixed = new ImageData(width, height);
    const compared = (all) => {
      let count = 0;
      for (let at = 0; at < data.length; at += 4) {
        // What differs by the colours alone that are left out of what is kept is the same.
        const isOther = all.every((one) => Math.max(Math.abs(one[at] - was[at]), Math.abs(one[at + 1] - was[at + 1]), Math.abs(one[at + 2] - was[at + 2])) > TOLERANCE);
        if (isOther) count++;
        for (let each = 0; each < 3; each++) mixed.data[at + each] = isOther ? (each === 0 ? 255 : 0) : 170 + data[at + each] / 3;
        mixed.data[at + 3] = 255;
      }
      return count / (width * height);
    };
    share = compared([data]);
    if (share > SHARE) share = compared([data, kept()]);
    if (share > 0 && !isWriting) {
      then.context.putImageData(mixed, 0, 0);
      difference = await packed(then.context, "image/png");
    }
  }
  if (!isWriting) return { share, difference, packed: "" };
  now.image.data.set(kept());
  now.context.putImageData(now.image, 0, 0);
  return { share, difference, packed: await packed(now.context, "image/webp") };
}
