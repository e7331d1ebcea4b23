// Bundles the tests that lie beside the sources, and runs them with node:test.
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const names = await readdir(path.join(HERE, "src"), { recursive: true });
const tests = names.filter((name) => name.endsWith(".test.ts")).map((name) => path.join("src", name)).sort();
const out = await mkdtemp(path.join(os.tmpdir(), "haulout-web-"));
await build({
  absWorkingDir: HERE,
  entryPoints: tests,
  bundle: true,
  outdir: out,
  outExtension: { ".js": ".mjs" },
  format: "esm",
  platform: "node",
  target: ["node20"],
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
  define: { "globalThis.WEB_SOURCES": JSON.stringify(path.join(HERE, "src")) },
});
const found = (await readdir(out, { recursive: true })).filter((name) => name.endsWith(".mjs")).map((name) => path.join(out, name));
const done = spawnSync(process.execPath, ["--test", ...found], { stdio: "inherit" });
await rm(out, { recursive: true, force: true });
process.exit(done.status ?? 1);
