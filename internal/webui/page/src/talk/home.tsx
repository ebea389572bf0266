import './home.css';

const starters = [
  { title: 'Plan something', message: 'Help me plan a weekend away. Ask me what you need to know.' },
  { title: 'Think it through', message: 'I have to make a decision. Help me weigh what speaks for each side.' },
  { title: 'Look back', message: 'What do you remember about me, and from when?' },
];

/** Whether other chats learn of the one that begins, and it of them. */
export function Temporary({ on, set }: { on: boolean; set: (on: boolean) => void }) {
  return (
    <>
      <label class="check">
        <input type="checkbox" role="switch" checked={on} onChange={(event) => set(event.currentTarget.checked)} /> Temporary chat
      </label>
      <span>{on ? 'Other chats learn nothing of this one, and it nothing of them.' : 'Other chats remember what you say here.'}</span>
    </>
  );
}

/** Messages for who does not know how to begin. */
export function Starters({ onChoose }: { onChoose: (message: string) => void }) {
  return (
    <ul class="starters" aria-label="Ways to begin">
      {starters.map(({ title, message }) => (
        <li key={title}><button type="button" onClick={() => onChoose(message)}><strong>{title}</strong> <span>{message}</span></button></li>
      ))}
    </ul>
  );
}

/** Which model answers. Where there is one, its name. */
export function ModelPicker({ models, chosen, onChoose }: { models: string[]; chosen?: string; onChoose: (model: string) => void }) {
  if (models.length < 2) return <span class="model">{models[0]}</span>;
  return (
    <label class="model">
      <span class="unseen">Model</span>
      <select value={chosen} onChange={(event) => onChoose(event.currentTarget.value)}>
        {models.map((model) => <option key={model}>{model}</option>)}
      </select>
    </label>
  );
}
