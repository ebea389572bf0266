/** The package that apps use, too. Everything of the page takes it from here. */
export * from '@arcoscribe/throughline';
export { useChat, type Chat } from '@arcoscribe/throughline/react';
