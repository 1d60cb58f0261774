import { join } from "node:path";
import { defineConfig } from "vite";
import { lean } from "./scripts/lean.ts";

// Names have a hash of the content, so that browsers keep them for ever; nothing is inlined, as the policy of the page forbids it.
export default defineConfig({
  base: "/console/",
  publicDir: "public",
  plugins: [lean(join(import.meta.dirname, "src"))],
  // Children as arguments, and not as a property: 1 kB less.
  oxc: { jsxInject: `import { h as elementOf, Fragment as Together } from "preact"`, jsx: { runtime: "classic", pragma: "elementOf", pragmaFrag: "Together" } },
  build: {
    outDir: "dist",
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: false,
    rolldownOptions: {
      output: {
        entryFileNames: "assets/[name]-[hash].js",
        // A screen has the name of its folder.
        chunkFileNames: ({ facadeModuleId, name }) => `assets/${/\/screens\/(\w+)\/screen\.tsx$/.exec(facadeModuleId ?? "")?.[1] ?? name}-[hash].js`,
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
});
