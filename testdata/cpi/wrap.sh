# Makes ./cpi of a script: the embedded CPI, which notes its methods in ./calls and
# its requests in ./requests, does not implement the methods that stand in
# ./not-implemented, and lets ./on-METHOD, where there is one, answer.
cp -r "$TESTDATA/../local/cpi/release" cpi
: >calls
: >requests
: >not-implemented
template=cpi/jobs/local_cpi/templates/cpi.erb
grep -v '^exec ' $template >whole && mv whole $template
cat >>$template <<S
request=\$(cat)
method=\$(printf %s "\$request" | sed -n 's/^{"method":"\([a-z_]*\)".*/\1/p')
echo "\$method" >>$WORK/calls
printf '%s\n' "\$request" >>$WORK/requests
if grep -qx "\$method" $WORK/not-implemented; then
  echo '{"result":null,"error":{"type":"Bosh::Clouds::NotImplemented","message":"not here","ok_to_retry":false},"log":""}'
elif [ -f $WORK/on-\$method ]; then
  printf %s "\$request" | bash $WORK/on-\$method
else
  printf %s "\$request" | "\$BOOTSTRAP_EXECUTABLE" plugin cpi --config "\$BOSH_JOBS_DIR/local_cpi/config/cpi.json"
fi
S
sed -i.bak 's#url: embedded:local-cpi#url: file://./cpi#' page.yml
