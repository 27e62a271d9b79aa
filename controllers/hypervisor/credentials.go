package hypervisor

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/steps"
)

// credentials reads the Secret anew each time, so that a rotation takes effect without a restart.
func (r *Reconciler) credentials(ctx context.Context, s *scope) steps.Result {
	ref := s.hv.Spec.CredentialsRef
	if ref == nil {
		return steps.Done()
	}
	var secret corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: ref.Name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		msg := fmt.Sprintf("secret %q does not exist in namespace %q", ref.Name, r.Namespace)
		return steps.Wait(v1alpha1.ReasonSecretNotFound, msg, pollReference)
	case err != nil:
		return steps.Failed(fmt.Errorf("read secret %q: %w", ref.Name, err))
	}
	s.secret = secret.Data
	return steps.Done()
}
