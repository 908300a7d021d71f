// A script and a stylesheet for each page: `vite build --mode open` makes those of octavo open, any other mode those of
// octavo explain. Python puts them into the pages. Nothing in them names an address.
import { defineConfig } from "vite";

const PAGES = {
  explain: { entry: "src/main.tsx", outDir: "../src/octavo/explain/assets" },
  open: { entry: "src/open/main.tsx", outDir: "../src/octavo/browser/assets" },
};

export default defineConfig(({ mode }) => {
  const name = mode === "open" ? "open" : "explain";
  return {
    build: {
      target: "es2021",
      outDir: PAGES[name].outDir,
      emptyOutDir: true,
      modulePreload: false,
      reportCompressedSize: false,
      lib: { entry: PAGES[name].entry, formats: ["iife"], name: "octavo", fileName: () => `${name}.js`, cssFileName: name },
    },
    define: { "process.env.NODE_ENV": '"production"' },
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  };
});
