// Package topics keeps the topics of a chat: which topic a turn belongs to, how topics fade and strengthen, which are
// packed away or merged, and how a prompt shows one. These rules are pure: they read no clock and no database.
// docs/memory.md explains them.
//
// Four parts work by them. The [Assigner] gives turns their topics, and asks no model: the vectors are those of the
// turns. The [Compactor] adds the old messages of a topic to its summary, as a fold adds turns to a brief. The [Rewriter]
// makes questions stand alone: "and in winter?" becomes what somebody would ask who has not read the chat. The [Titler] gives a
// chat the title that its list shows.
package topics
