// The screens on which people look at what there is and what happens: one part, which is smaller than each by itself.
export { default as Logs } from "./logs/screen";
export { default as Memory } from "./memory/screen";
export { default as Skills } from "./skills/screen";
export { default as Tools } from "./tools/screen";
export { default as Turn } from "./turn/screen";
export { default as Usage } from "./usage/screen";
