/** Apps with the package in one Node process. */
import { appOf, play, reporter } from './stage.js';

const apps = new Map();
const stored = new Map();
const report = reporter(process.env.STAGE);

function open(name) {
  const storage = {
    getItem: async (key) => stored.get(`${name}.${key}`) ?? null,
    setItem: async (key, value) => stored.set(`${name}.${key}`, value),
  };
  return appOf({ report: (state) => report(name, state), storage });
}

await play(process.env.STAGE, async (order) => {
  if (!apps.has(order.app)) apps.set(order.app, open(order.app));
  await apps.get(order.app)(order);
  if (order.do !== 'kill') return;
  apps.delete(order.app);
  report(order.app, { killed: true });
});
