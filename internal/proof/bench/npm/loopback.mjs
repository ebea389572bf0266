// Loaded before a server that does not know a host to listen on: it listens on loopback alone, and logs where, as the
// program does.
import { Server } from "node:net";

const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  const callback = rest.find((argument) => typeof argument === "function");
  return listen.call(this, { port, host: "127.0.0.1" }, () => {
    process.stderr.write(`\n${JSON.stringify({ msg: "listening", address: `127.0.0.1:${this.address().port}` })}\n`);
    callback?.call(this, this.address());
  });
};
