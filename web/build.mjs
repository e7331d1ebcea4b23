// Builds the bundle into the Python package. `--check` compares it with the committed one, byte for byte, and with its size limit.
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const TARGET = path.join(HERE, "../src/haulout/console/static");
const MOST_GZIP_BYTES = 120 * 1024;
const LICENSED = ["preact", "@preact/signals", "@preact/signals-core"];

/** Return the files of the bundle by their paths. File names carry a hash, because browsers keep assets for ever. */
async function bundle() {
  const made = await build({
    absWorkingDir: HERE,
    entryPoints: { console: "src/app.tsx", style: "src/style.css" },
    bundle: true,
    write: false,
    outdir: "out",
    format: "esm",
    target: ["es2022"],
    charset: "utf8",
    minify: true,
    legalComments: "none",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const files = new Map();
  const named = {};
  for (const { path: out, contents } of made.outputFiles) {
    const { name, ext } = path.parse(out);
    const hash = createHash("sha256").update(contents).digest("hex").slice(0, 10);
    named[ext] = `assets/${name}-${hash}${ext}`;
    files.set(named[ext], Buffer.from(contents));
  }
  const page = await readFile(path.join(HERE, "src/index.html"), "utf8");
  files.set("index.html", Buffer.from(page.replace("SCRIPT", `/${named[".js"]}`).replace("STYLE", `/${named[".css"]}`)));
  files.set("assets/icon.svg", await readFile(path.join(HERE, "src/icon.svg")));
  files.set("licenses.txt", Buffer.from((await Promise.all(LICENSED.map(license))).join("\n")));
  return files;
}

async function license(name) {
  const text = await readFile(path.join(HERE, "node_modules", name, "LICENSE"), "utf8");
  return `${name}\n\n${text}`;
}

async function committed() {
  const names = await readdir(TARGET, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = names.filter((each) => each.isFile()).map((each) => path.join(each.parentPath, each.name));
  return new Map(await Promise.all(files.map(async (file) => [path.relative(TARGET, file), await readFile(file)])));
}

const files = await bundle();
const size = [...files.values()].reduce((sum, each) => sum + gzipSync(each, { level: 9 }).length, 0);
if (size > MOST_GZIP_BYTES) {
  console.error(`build: the assets have ${size} bytes in gzip, more than ${MOST_GZIP_BYTES}`);
  process.exit(1);
}
if (process.argv.includes("--check")) {
  const found = await committed();
  const differing = [...new Set([...files.keys(), ...found.keys()])].filter(
    (name) => !(files.has(name) && found.has(name) && files.get(name).equals(found.get(name))),
  );
  if (differing.length) {
    console.error(`build: the committed bundle differs in ${differing.join(", ")}: run \`make web\` and commit the result`);
    process.exit(1);
  }
} else {
  await rm(TARGET, { recursive: true, force: true });
  for (const [name, content] of files) {
    await mkdir(path.dirname(path.join(TARGET, name)), { recursive: true });
    await writeFile(path.join(TARGET, name), content);
  }
}
console.log(`build: ${files.size} files, ${size} bytes in gzip`);
