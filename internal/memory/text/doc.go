// Package text has what prompts and briefs need to know of text: how many tokens it takes, where it may be cut, and
// which of its lines would read as one of our own headings or labels and so have to be quoted.
package text
