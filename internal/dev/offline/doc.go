// Package offline is a stand-in for the model provider: an HTTP server on loopback that implements OpenAI's
// Responses API (and embeddings) for the official clients, with a deterministic model. It answers requests
// as openai-go builds them, and checks nothing of them. `make run` uses it when no key is set; all tests and benchmarks use it.
//
// The model has no knowledge. It answers from the prompt and names the section it used, which shows whether memory
// works: the reply to a question quotes the best matching sentence of the brief, of the recent turns or of the sources,
// or reports that nothing answers it; a statement is acknowledged; "write 300 words about X" returns about 300 words.
// Folds and topics' summaries are extractive: they keep the most informative sentences, up to the cap in the
// instructions. Memories are extracted and consolidated by rule: sayings.txt has the ways of saying a thing that it
// knows, in English, and everything else is overheard. A question is made to stand alone by rule, too: the words
// "it" and "there" become the thing or the place that was named last, and what no rule knows stays as
// it is. That shows that what surrounds it works, and nothing about what a model would find. The
// same prompt always has the same answer. There is no state between requests except the record of requests; in
// particular previous_response_id, conversations, background mode, tools, images, files and a prompt cache are not there.
//
// Each response says what it is: header X-Throughline-Model and metadata throughline_model, both
// "offline".
//
// # Faults on demand
//
// A test sets Options.Script. A person, or a test without access to the server, writes directives
// into the message being answered (older messages do not count), each [[offline:NAME]] or
// [[offline:NAME=VALUE]]:
//
//	401 404 500 503        refused with this status
//	429 or 429=2           refused, with Retry-After in seconds where a value is given
//	prompt_gone            404 whose error names the prompt
//	stall                  no answer at all: the connection is held before the headers
//	latency=2s             a pause before the headers
//	slow=200ms             a pause before each piece of text
//	hang cut end_early     after the first pieces: silence, a reset, a clean end without a last event
//	failed error_event     after the first pieces: response.failed, an error event
//	incomplete             ends as if max_output_tokens were reached
//	content_filter         ends as if the filter had cut it
//	empty                  a completed reply without text
//	none refusal           the word NONE, or a refusal, in place of the text
//	loop                   one sentence over and over
//	split crlf             each byte written alone, CRLF line ends
//	long_line invalid_utf8 a delta of one megabyte, a delta with bytes that are no UTF-8
//	two_items              after the first pieces a second item of the output begins
//	no_deltas only_end     the text is in the events at its end alone, or in the last event alone
//
// A value of hang, cut, end_early, failed, error_event, incomplete, content_filter, long_line,
// invalid_utf8 and two_items is the number of pieces (words) that come first; without one it is 2. In a fold the
// prefix is offline-fold, as in [[offline-fold:none]], anywhere in the new turns, and in a topic's summary offline-topic;
// in an extraction it is offline-extract, anywhere in the new messages; in a rewriting offline-rewrite, in the question.
package offline
