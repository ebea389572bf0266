/** Stands in for the package react-native: an AppState that a test changes. */
const listeners = new Set();

export const AppState = {
  addEventListener(_type, listener) {
    listeners.add(listener);
    return { remove: () => listeners.delete(listener) };
  },
};

export function changeAppState(state) {
  for (const listener of [...listeners]) listener(state);
}
