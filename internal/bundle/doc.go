// Package bundle reads and writes chats as files: our own bundle (lines of JSON, or the same as one object), Markdown
// for people, which is only written, and two foreign formats, which are only read: ChatGPT's conversations.json and
// plain lines of messages. docs/bundle.md describes them.
//
// Readers hold one record at a time, whatever the file's length. Everything that is wrong with a file is a
// fault.ImportInvalid that names the line. Databases and users are not known here.
package bundle
