/** The package in a web page. Hiding a page takes a person, so the page is told that it happened. */
import { playInFrames } from './frames.js';
import { appOf } from './stage.js';

const phone = {
  background: () => show(false),
  foreground: () => show(true),
};

playInFrames((report, storage) => appOf({ report, storage, phone }));

function show(visible) {
  Object.defineProperty(document, 'hidden', { configurable: true, value: !visible });
  Object.defineProperty(document, 'visibilityState', { configurable: true, value: visible ? 'visible' : 'hidden' });
  document.dispatchEvent(new Event('visibilitychange'));
}
