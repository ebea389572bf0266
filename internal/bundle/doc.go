// Package bundle holds the file formats in which chats come and go: our own bundle (lines of JSON, or the same
// as one object), Markdown for people, and two formats of others, which are only read: ChatGPT's
// conversations.json and plain lines of messages. docs/bundle.md describes them.
//
// Readers take a file apart record by record and hold one record at a time, whatever the file's length; every
// fault is a fault.ImportInvalid that names the line. Nothing here knows of databases or users.
package bundle
