// Package memory has the words that all of Throughline shares about a chat's memory: messages and the turns they
// make, the brief, what a chat says about how it is remembered, and the limits in tokens. Everything is a value or a
// pure function; there is no I/O, no clock and no randomness here or in [text], [prompt] and the rules of [brief].
//
// The one promise behind the rules is coverage: every turn of a chat is either in the brief (seq <= covered seq) or
// word for word in the prompt. A turn that is in neither is counted in the receipt, so a breach is never silent.
//
//	Turns (here)                 rows in seq order become turns
//	prompt.Build                 brief, turns and question become the prompt and its receipt
//	Due (here)                   the counters say that a fold should run
//	brief.PlanFold               which turns leave, in how many model calls
//	brief.FoldInput, brief.Judge what the summarizer reads, and the gate a new summary must pass
//
// The tests in this folder hold the rules together: golden files in testdata, and a simulation of whole chats.
// Memory does not know which model answered, where rows are kept, or what a summary means.
package memory
