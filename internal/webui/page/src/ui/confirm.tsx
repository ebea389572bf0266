import { render } from 'preact';

interface Question {
  title: string;
  text: string;
  /** What the button that does it says. */
  action: string;
}

/** Asks before something that cannot be undone. */
export function confirm({ title, text, action }: Question): Promise<boolean> {
  const dialog = document.createElement('dialog');
  dialog.setAttribute('aria-labelledby', 'question');
  render(
    <form method="dialog">
      <h2 id="question">{title}</h2>
      <p>{text}</p>
      <div class="choices">
        <button value="no">Keep it</button>
        <button value="yes" class="danger">{action}</button>
      </div>
    </form>,
    dialog,
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      resolve(dialog.returnValue === 'yes');
      render(null, dialog);
      dialog.remove();
    });
  });
}
