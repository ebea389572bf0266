// Package brief folds old turns into a chat's brief.
//
// Its rules are pure functions: which turns leave the prompt and in how many model calls ([PlanFold]),
// the input ([FoldInput]) and the instructions ([SummaryInstructions]) of the summarizer, and the gate
// that a new summary has to pass ([Judge]).
//
// [Engine] runs a fold: it claims the chat, plans, calls the model outside of any transaction, and writes the result
// if nothing has changed meanwhile. Its methods may run twice, concurrently, and may be killed at any moment: nothing
// is written before the one transaction at the end, and that one compares before it sets. A [Store] keeps the rows;
// package jobs decides when a fold runs.
package brief
