// Package recall finds the turns of a chat that a question is about, after they have left the prompt.
//
// Words come first, meaning second. A [Store] returns the turns that hold words of the question, and those whose
// vectors are near it; this package scores them. Its rules are pure functions: which words of a question count, how a
// turn is scored ([Recaller]), what is worth showing (the gate), which dates a question names, and how the turns are
// written into a prompt ([Section]).
//
// [Recaller] runs the two or three round trips of one question. It knows neither Postgres nor the model that makes
// vectors: without an [Embedder] it goes by words alone.
package recall
