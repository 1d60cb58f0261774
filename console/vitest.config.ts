import { defineConfig } from "vitest/config";

/** What is computed, and neither drawn nor asked of the daemon: nearly every branch of it is taken by a test. */
const PURE = [
  "src/fold/*.ts",
  "src/link.ts",
  "src/parts/{amounts,blocks,colours,csv,diff,fields,grammars,heights,refusal,sentences,text}.ts",
  "src/store/{drafts,route,setting}.ts",
  "src/words/said.ts",
  "src/screens/*/{cron,days,draft,drafts,sources,view}.ts",
];

export default defineConfig({
  test: {
    include: ["tests/unit/**/*.test.{ts,tsx}"],
    environment: "node",
    coverage: { provider: "v8", include: PURE, reporter: [["text", { skipFull: true }]], thresholds: { branches: 95 } },
  },
});
