package render

import "io/fs"

// overlay is the shipped files with one of them replaced.
type overlay struct {
	fs.FS
	name string
	file *tree
}

// ReadFile implements fs.ReadFileFS.
func (o overlay) ReadFile(name string) ([]byte, error) {
	if name == o.name {
		return write(o.file)
	}
	return fs.ReadFile(o.FS, name)
}
