// Package extract reads out of a conversation what is worth remembering about its user. It writes what a model is asked
// ([Instructions], [Write], [Schema]), reads the answer ([Parse]), and judges each proposed fact ([Gate]): a model may
// propose what it likes, and only what the user said becomes a candidate for a memory.
//
// All of it are pure functions. Package learn calls the model, and package consolidate decides what a candidate changes.
package extract
