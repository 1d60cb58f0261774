// Imported before people.mjs, for golden pictures: their daemon is then the one whose clock stands still, and all machines have the same fonts.
import { fileURLToPath } from "node:url";

process.env.CONSOLE_PEER = "console_gallery_peer";
process.env.TZ = "UTC";
process.env.FONTCONFIG_FILE = fileURLToPath(new URL("../golden/fonts.conf", import.meta.url));
