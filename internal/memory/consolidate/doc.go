// Package consolidate decides what a candidate changes of what is remembered already: it is new, says more, contradicts,
// or says nothing new. What is plain is settled by rule ([Settle]); the rest is asked of a model in one call
// ([Instructions], [Write], [Schema], [Parse]), whose decisions are held to rules of ours ([Validate]): it cannot lose
// what the user said, nor change what they wrote.
package consolidate
