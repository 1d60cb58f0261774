// The screens where things are set up, as one part: people go between them, and their texts and parts are so alike that together they
// are a quarter smaller.
export { default as Agents } from "./agents/screen";
export { default as Providers } from "./providers/screen";
export { default as Settings } from "./settings/screen";
export { default as Setup } from "./setup/screen";
