const region = document.createElement('div');
region.className = 'unseen';
region.setAttribute('role', 'status');
document.body.append(region);

/** Has a screen reader say a sentence when it has nothing else to say. */
export function announce(text: string): void {
  region.textContent = '';
  setTimeout(() => (region.textContent = text), 50); // the same words twice would be no change
}
