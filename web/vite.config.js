// One script and one stylesheet, which octavo.explain puts into each page. Nothing in them names an address.
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    target: "es2021",
    outDir: "../src/octavo/explain/assets",
    emptyOutDir: true,
    modulePreload: false,
    reportCompressedSize: false,
    lib: { entry: "src/main.tsx", formats: ["iife"], name: "octavo", fileName: () => "explain.js", cssFileName: "explain" },
  },
  define: { "process.env.NODE_ENV": '"production"' },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
