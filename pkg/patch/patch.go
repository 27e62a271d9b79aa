// Package patch writes an object's changes to the API server, and nothing when nothing changed. The controllers are its
// callers.
package patch

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Status patches the status of after when changed says so. before is the object as it was read.
func Status(ctx context.Context, c client.Client, before, after client.Object, oldStatus, newStatus any) error {
	if equality.Semantic.DeepEqual(oldStatus, newStatus) {
		return nil
	}
	return c.Status().Patch(ctx, after, client.MergeFrom(before))
}

// StatusLocked is Status for a decision that must not rest on an old read: it fails with a conflict when the object has
// changed since.
func StatusLocked(ctx context.Context, c client.Client, before, after client.Object) error {
	return c.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// Finalizers patches the metadata of after, with the lock that a list without merge keys needs.
func Finalizers(ctx context.Context, c client.Client, before, after client.Object) error {
	return c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
