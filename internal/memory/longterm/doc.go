// Package longterm is what a user is remembered for across chats. It has four parts, which the names of its files begin
// with:
//
//   - retrieve: which memories a prompt shows, and which of them a reply used.
//   - extract, gate: what a model is asked of a conversation ([WriteInput]), how its answer is read ([ParseFacts]), and how
//     each proposed fact is judged ([Gate]): a model may propose what it likes, and only what the user said becomes a
//     [Candidate].
//   - decide: how a candidate changes what is remembered. Plain cases are settled by rule ([Settle]); the rest is asked of
//     a model in one call, whose decisions are held to rules of ours ([Validate]): it cannot lose what the user said, nor
//     change what they wrote.
//   - extractor: the engine that does all of it in the background, some turns of a chat at a time.
package longterm
