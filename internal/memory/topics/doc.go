// Package topics holds the rules of a chat's topics: which topic a turn belongs to, how topics fade and strengthen, which
// are packed away or merged, what their archive looks like, and how a prompt shows one. It is pure: it reads no clock and
// no database. docs/memory.md explains the rules; their constants are those of the topic memory that the project began
// with.
package topics
