/** The package as in React Native: its fetch has no readable body, so that streams come by XMLHttpRequest. */
import { playInFrames } from './frames.js';
import { appOf } from './stage.js';

delete Response.prototype.body;

const listeners = new Set();
const appState = {
  addEventListener(_type, listener) {
    listeners.add(listener);
    return { remove: () => listeners.delete(listener) };
  },
};
const change = (...states) => states.forEach((state) => [...listeners].forEach((listener) => listener(state)));

const phone = {
  background: () => change('inactive', 'background'),
  foreground: () => change('inactive', 'active'),
};

playInFrames((report, storage) => appOf({ report, storage, phone, platform: { appState } }));
