// Package places contains the suite that every place of a state passes: a folder, a web
// server, an S3 bucket and a PostgreSQL database.
package places
