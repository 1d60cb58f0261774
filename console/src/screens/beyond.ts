// The screens beyond the chat, as one part that is loaded when somebody comes to the first of them: their texts and parts are so alike
// that together they are a tenth smaller than in two.
// The texts first and beside each other: so they pack 2 kB smaller.
import "../words/screens/agents";
import "../words/screens/logs";
import "../words/screens/mcp";
import "../words/screens/memory";
import "../words/screens/providers";
import "../words/screens/schedules";
import "../words/screens/settings";
import "../words/screens/setup";
import "../words/screens/skills";
import "../words/screens/tools";
import "../words/screens/turn";
import "../words/screens/usage";
export { default as Agents } from "./agents/screen";
export { default as Logs } from "./logs/screen";
export { default as Mcp } from "./mcp/screen";
export { Slash } from "./mcp/slash";
export { Withheld } from "./mcp/withheld";
export { default as Memory } from "./memory/screen";
export { default as Providers } from "./providers/screen";
export { default as Schedules } from "./schedules/screen";
export { default as Settings } from "./settings/screen";
export { default as Setup } from "./setup/screen";
export { default as Skills } from "./skills/screen";
export { default as Tools } from "./tools/screen";
export { PolicyCheck } from "./tools/check";
export { default as Turn } from "./turn/screen";
export { default as Usage } from "./usage/screen";
export { default as Print } from "./print/screen";
