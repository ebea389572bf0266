// Package memory holds the types that all packages share about a chat's memory: messages and turns, the brief, the
// chat's memory settings, and the limits in tokens. Everything is a value or a pure function: there is no I/O, no
// clock and no randomness here, in [text], in [prompt] and in the rules of [brief].
//
// The rules keep one promise, coverage: every turn of a chat is either in the brief (seq <= covered seq) or word for
// word in the prompt. A turn that is in neither is counted in the receipt, so a breach is always visible.
//
//	Turns (here)                 rows in seq order become turns
//	prompt.Build                 brief, turns and question become the prompt and its receipt
//	Due (here)                   the chat's counters decide whether a fold should run
//	brief.PlanFold               which turns leave the prompt, in how many model calls
//	brief.FoldInput, brief.Judge the summarizer's input, and the gate that a new summary must pass
//
// The tests in this folder check all rules together: golden files in testdata, and a simulation of whole chats.
package memory
