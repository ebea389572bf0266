// Loaded before a server that knows neither a host to listen on nor how to end with who started it: it
// listens on loopback alone, says on stdout where, and ends with its stdin.
import { Server } from "node:net";

const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  const callback = rest.find((argument) => typeof argument === "function");
  return listen.call(this, { port, host: "127.0.0.1" }, () => {
    process.stdout.write(`\nhttp://127.0.0.1:${this.address().port}\n`);
    callback?.call(this, this.address());
  });
};

process.stdin.on("end", () => process.exit(0)).resume();
