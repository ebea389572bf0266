import './menu.css';
import type { ComponentChildren } from 'preact';
import { Icon } from './icon';

/** More buttons behind one. The platform opens and closes it; a press of one of them closes it first, so that the focus is back. */
export function Menu({ id, name, children }: { id: string; name: string; children: ComponentChildren }) {
  return (
    <>
      <button type="button" class="action" aria-label={name} title={name} popovertarget={id}><Icon name="more" /></button>
      <div class="menu" id={id} popover="auto" onClickCapture={(event) => event.currentTarget.hidePopover()}>{children}</div>
    </>
  );
}
