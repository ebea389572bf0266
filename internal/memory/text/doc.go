// Package text counts and cuts text by tokens, and quotes the lines of a text that look like markup of our own.
//
// Sizes are tokens of o200k_base ([Tokens]). A text is cut where a sentence, a word or at least a character ends
// ([FitCap], [Clip], [Split], [NewestSentences]). What people wrote may not look like a heading or a speaker label
// of a prompt: [QuoteLines] quotes such lines, and [Skeleton] sees through disguises.
package text
