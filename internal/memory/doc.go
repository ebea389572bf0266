// Package memory holds the rules of a chat's memory: what a turn is, which turns a prompt shows,
// when and how old turns are folded into the brief, and what a new brief must be like to be kept.
//
// Everything here is a pure function over rows. There is no I/O, no clock, no goroutine and no
// randomness, so each rule can be read beside its golden file in testdata and tried again at will.
//
// The one promise behind the rules is coverage: every turn of a chat is either in the brief
// (seq <= covered seq) or word for word in the prompt. A turn that is in neither is counted, in
// [Receipt.DroppedTurns], so that a breach is never silent.
//
// The life of a turn:
//
//	Turns       rows in seq order become turns
//	Build       brief + turns + question become the prompt and its receipt
//	Due         the counters say that a fold should run
//	PlanFold    which turns leave, in how many model calls (Piece)
//	FoldInput   what the summarizer reads; SummaryInstructions what it is told
//	Judge       the gate a new summary must pass; FitCap cuts what stays too long
//
// What it does not know: which model answered (memory treats all variants alike), where rows are
// kept, and what a summary means.
package memory
