// Package offline is a stand-in for the model provider: an HTTP server on loopback that implements OpenAI's Responses API and Chat
// Completions (and embeddings), with a deterministic model. `make run` uses it when no key is set; all tests and benchmarks use it.
//
// Of tools, and of earlier steps that come back, it refuses what the APIs refuse: an id of an item that is not stored, a call without
// its output, reasoning that it did not give, parameters that are not known. A step that does not come back as it was said is
// irregular: the APIs take it, our contract does not. Nothing else of a request is checked.
//
// The model has no knowledge. It answers from the prompt and names the section it used, which shows whether memory
// works: the reply to a question quotes the best matching sentence of the brief, of the recent turns or of the sources,
// or reports that nothing answers it; a statement is acknowledged; "write 300 words about X" returns about 300 words.
// Folds and topics' summaries are extractive: they keep the most informative sentences, up to the cap in the
// instructions. Memories are extracted and consolidated by rule: sayings.txt has the ways of saying a thing that it
// knows, in English, and everything else is overheard. A question is made to stand alone by rule, too: the words
// "it" and "there" become the thing or the place that was named last, and what no rule knows stays as
// it is. That shows that what surrounds it works, and nothing about what a model would find. The
// same prompt always has the same answer. There is no state between requests except the record of requests and of steps with calls; in
// particular previous_response_id, conversations, background mode, images, files and a prompt cache are not there.
//
// # Tools
//
// Where roll_dice or send_postcard is offered, the model calls it when the message asks for it, in English or German, and says in
// the next step how that ended; tools.txt has the ways of asking and of saying so. For an app in development, any offered tool is
// called by a message with [[offline:call=NAME]], or one that is /NAME {json}, with that JSON as its arguments. With tool_choice
// required the first tool is called if nothing else is.
//
// # Faults on demand
//
// A test sets Options.Script. A person, or a test without access to the server, writes directives
// into the message being answered (older messages do not count), each [[offline:NAME]] or [[offline:NAME=VALUE]]. The
// names are those of the faults, and latency=2s for a pause before the headers, and slow=200ms for one before each piece
// of text. The value of a fault in place of an answer is its Retry-After, as in 429=2; that of one inside an answer the
// number of pieces (words) that come first; without one it is 2.
//
// In a fold the prefix is offline-fold, as in [[offline-fold:none]], anywhere in the new turns, and in a topic's summary
// offline-topic; in an extraction it is offline-extract, anywhere in the new messages; in a rewriting offline-rewrite, in
// the question.
package offline
