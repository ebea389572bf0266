/** Holds the README to what an app gets: each row of its table is bundled, minified and packed. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

import { build } from 'esbuild';

const rows = [...readFileSync('README.md', 'utf8').matchAll(/^\| `(import .+)` \| ([\d.]+) kB \|$/gm)];
assert.equal(rows.length, 3);
for (const [, code, said] of rows) {
  const [, names] = code.match(/import \{(.+?)\}/);
  const contents = code.replaceAll('; ', ';\n').replaceAll("'@arcoscribe/throughline", "'./dist/esm").replaceAll(/esm(\/?)([\w/-]*)'/g, (_, __, sub) => `esm/${sub.replace('/', '-') || 'index'}.js'`);
  const { outputFiles } = await build({
    stdin: { contents: `${contents};\nconsole.log(${names});`, resolveDir: '.' }, bundle: true, minify: true, format: 'esm', external: ['react'], write: false,
  });
  const kB = gzipSync(outputFiles[0].contents, { level: 9 }).length / 1000;
  assert.ok(Math.abs(kB / said - 1) < 0.05, `${code} is ${kB.toFixed(1)} kB, and the README says ${said}`);
}
