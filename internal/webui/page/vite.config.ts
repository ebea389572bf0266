import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  base: '/app/',
  build: {
    outDir: '../dist',
    emptyOutDir: false, // a .gitignore keeps the folder; scripts/setup removes old builds
    assetsInlineLimit: 0, // the page's policy allows no data: but for images
    modulePreload: { polyfill: false }, // an inline script
    license: { fileName: 'licenses.md' },
  },
  resolve: {
    alias: [
      { find: /^react$|^react-dom$/, replacement: 'preact/compat' },
      { find: /^react\/jsx-runtime$/, replacement: 'preact/jsx-runtime' },
      { find: /^@arcoscribe\/throughline$/, replacement: at('../../../clients/src/index.ts') },
      { find: /^@arcoscribe\/throughline\/(.+)$/, replacement: at('../../../clients/src/') + '$1' },
    ],
    // clients/ is its own package: what it imports is taken from here.
    dedupe: ['openapi-fetch', 'eventsource-parser', 'preact'],
  },
});
