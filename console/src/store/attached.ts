// Files that came with messages: read one after the other when somebody sees them, and the last ones kept as `blob:` addresses.
import * as app from "./app";

/** All that is kept of pictures: some screens full of photos. */
const MAX_KEPT_BYTES = 48 * 1024 * 1024;
/** The pictures that are shown without a press: a larger one is a chip, as any other file is. */
export const MAX_SHOWN_BYTES = 6 * 1024 * 1024;

const PICTURES = /^image\/(png|jpeg|gif|webp)$/;

export interface Place {
  sessionId: string;
  messageId: string;
  number: number;
}

interface Held {
  url: string;
  size: number;
}

/** The oldest first. */
const held = new Map<string, Held>();
let last: Promise<unknown> = Promise.resolve();

export const isPicture = (type: string, size: number) => PICTURES.test(type) && size <= MAX_SHOWN_BYTES;

const keyOf = ({ sessionId, messageId, number }: Place) => `${sessionId} ${messageId} ${number}`;

/** The address of a picture, if it was read already. */
export const known = (place: Place) => held.get(keyOf(place))?.url ?? "";

/** Read a picture behind those that are being read; return its address. */
export function picture(place: Place): Promise<string> {
  const reading = last.then(async () => {
    const key = keyOf(place);
    const there = held.get(key);
    if (there !== undefined) {
      held.delete(key);
      held.set(key, there);
      return there.url;
    }
    const content = await read(place);
    const url = URL.createObjectURL(content);
    held.set(key, { url, size: content.size });
    let all = [...held.values()].reduce((sum, each) => sum + each.size, 0);
    for (const [oldest, each] of held) {
      if (all <= MAX_KEPT_BYTES || oldest === key) break;
      all -= each.size;
      URL.revokeObjectURL(each.url);
      held.delete(oldest);
    }
    return url;
  });
  last = reading.catch(() => undefined);
  return reading;
}

/** Read a file, however many answers it takes. Only of a picture the browser learns the type: no other one is ever drawn. */
export async function read({ sessionId, messageId, number }: Place): Promise<Blob> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let offset = 0; ; ) {
    const part = await app.link.request("session/attachment", { session_id: sessionId, message_id: messageId, number, offset });
    const bytes = Uint8Array.from(atob(part.data), (each) => each.charCodeAt(0));
    parts.push(bytes);
    offset += bytes.length;
    if (offset < part.size_bytes && bytes.length > 0) continue;
    return new Blob(parts, { type: PICTURES.test(part.media_type) ? part.media_type : "application/octet-stream" });
  }
}

/** The next login may be of somebody else. */
export function forget(): void {
  for (const each of held.values()) URL.revokeObjectURL(each.url);
  held.clear();
}
