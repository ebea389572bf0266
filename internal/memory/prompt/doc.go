// Package prompt builds the prompt of the main model: it selects what is shown of a chat by the chat's strategy and
// the token budgets, writes it section by section, and describes it in a receipt.
//
// Everything here is a pure function. Stored texts are tokenized only when something has to be shortened.
package prompt
