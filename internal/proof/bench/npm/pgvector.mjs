// Postgres with pgvector, compiled to WebAssembly: no package of it is needed on this machine. It says on
// stdout where it listens, keeps its files in FOLDER, and ends with its stdin.
import { PGlite } from "@electric-sql/pglite";
import { vector } from "@electric-sql/pglite-pgvector";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";

const db = await PGlite.create({ dataDir: process.env.FOLDER, extensions: { vector } });
// mem0 holds a connection for its memories and one for its entities.
const server = new PGLiteSocketServer({ db, port: 0, host: "127.0.0.1", maxConnections: 4 });
server.addEventListener("listening", (event) => {
  const { host, port } = event.detail;
  process.stdout.write(`postgres://postgres@${host}:${port}/postgres\n`);
});
await server.start();
process.stdin.on("end", () => process.exit(0)).resume();
