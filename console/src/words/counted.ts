/** A count with its noun in English, which has two forms of it: "1 line", "2 lines". Chinese has one. */
export const counted = (count: number | string, noun: string): string => `${count} ${noun}${String(count) === "1" ? "" : "s"}`;
