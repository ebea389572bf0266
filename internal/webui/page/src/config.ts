/** What the server says about itself at /app/config.json. */
export interface Config {
  version: string;
  /** The Supabase project to sign in with, and its anon or publishable key. Without both, a token is pasted. */
  supabase_url?: string;
  supabase_key?: string;
  /** The first one answers unless another is asked for. */
  model_variants: string[];
  /** The model of `make run` answers, which knows nothing. */
  offline_model?: boolean;
}

let loaded: Promise<Config> | undefined;

export function loadConfig(): Promise<Config> {
  loaded ??= fetch('/app/config.json').then((answer) => {
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    return answer.json();
  });
  loaded.catch(() => (loaded = undefined)); // the next call tries again
  return loaded;
}
