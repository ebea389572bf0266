// Package brief folds old turns into a chat's brief.
//
// Its rules are pure functions: which turns leave the prompt and in how many model calls ([PlanFold],
// [PlanRebuild]), what the summarizer reads ([FoldInput]) and is told ([SummaryInstructions]), and the gate that a
// new summary has to pass ([Judge]).
//
// [Engine] is the life of a fold: it claims the chat, plans, asks the model outside of any transaction, and writes
// the result if nothing has changed meanwhile. Every method of it may run twice, concurrently, and may be killed at
// any moment: nothing is written before the one transaction at the end, and that one compares before it sets. The
// rows are kept by a [Store]; package jobs decides when a fold runs.
package brief
