import type { SupabaseClient } from '@supabase/supabase-js';
import type { ComponentChildren } from 'preact';

/** What Supabase lets users decide about programs that act for them. */
export type OAuth = SupabaseClient['auth']['oauth'];

export function Plain({ title, children }: { title: ComponentChildren; children: ComponentChildren }) {
  return <main id="main" tabIndex={-1} class="consent"><h1>{title}</h1>{children}</main>;
}

/** A name that a program gave itself: shortened, and kept from changing the direction of the text around it. */
export function Name({ of }: { of: string }) {
  const name = of.trim();
  return name ? <bdi>“{name.length > 60 ? `${name.slice(0, 60)}…` : name}”</bdi> : <>a program without a name</>;
}
