package memory

// File is a text file that came with a message.
type File struct {
	Path, Content string
}
