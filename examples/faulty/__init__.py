"""Rules with one real mistake each. None of these modules can be imported.

Every module keeps to one form, so that the demonstration can run it as it stands:

- a docstring that says what its author meant;
- the rule, with its mistake;
- `inputs()`, the arrays a caller has, and `loss(*inputs)`, what is differentiated;
- `reference(*inputs)`, the same loss in plain JAX operations, whose gradient is true;
- `COMPANY`, where the mistake shows only in company: more functions of the inputs;
- `EXPECTED_CODE`, the code of the error that stops the import, and `STOCK`, what
  stock JAX does instead: `"silent"`, or the first stage at which it raises;
- `use()`, what a caller would run.
"""
