// Package assign keeps the topics of conversations: it gives indexed turns their topics, archives topics that faded, and
// merges those that are the same. It asks no model: the vectors are those of the turns. Which topic a turn belongs to,
// and what fades, are rules of package topics.
package assign
